// consumer.c: the smallest program that uses an installed sluice.
#include <sluice/sluice.h>
#include <stdio.h>

int main(void) {
  printf("%s\n", sluice_build_info());
  return sluice_version() != SLUICE_VERSION;
}
