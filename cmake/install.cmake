# Installs the library for C and C++ (find_package, pkg-config) and, as component "python", for the wheel.
include(CMakePackageConfigHelpers)

install(TARGETS sluice EXPORT sluice FILE_SET HEADERS)
install(EXPORT sluice NAMESPACE sluice:: FILE sluice-config.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/sluice-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sluice-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)

# The way from the .pc file up to the prefix, so that the installed tree may be moved.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" up ${up})
configure_file(cmake/sluice.pc.in sluice.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sluice.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS sluice LIBRARY DESTINATION sluice/lib NAMELINK_SKIP COMPONENT python EXCLUDE_FROM_ALL)
