# Reads the operations from the umbrella header, checks that each is complete, and collects its sources in
# sluice_op_sources. Writes what the C++ side needs to know of the build into the folder sluice_generated.

set(umbrella ${CMAKE_CURRENT_SOURCE_DIR}/include/sluice/sluice.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${umbrella})
file(STRINGS ${umbrella} lines REGEX "^#include <sluice/ops/[a-z0-9_]+\\.h>")

set(sluice_op_sources ${CMAKE_CURRENT_SOURCE_DIR}/src/ops/registry.cpp)
set(registry "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE ".*/([a-z0-9_]+)\\.h>.*" "\\1" op ${line})
  string(APPEND registry "SLUICE_OP(${op})\n")

  foreach(file src/ops/${op}/${op}.hpp src/ops/${op}/${op}.cpp src/ops/${op}/${op}_cpu.cpp
               src/ops/${op}/${op}_cuda.cu tests/ops/${op}_test.cpp)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
      message(FATAL_ERROR "include/sluice/sluice.h lists the operation ${op}, but ${file} is missing: "
                          "docs/adding_an_op.md names the files of an operation.")
    endif()
  endforeach()

  file(GLOB files CONFIGURE_DEPENDS src/ops/${op}/*.cpp)
  list(APPEND sluice_op_sources ${files})
  if(SLUICE_WITH_CUDA)
    file(GLOB files CONFIGURE_DEPENDS src/ops/${op}/*.cu)
    list(APPEND sluice_op_sources ${files})
  endif()
endforeach()

# sluice_choose_half(OUT FILE...): keeps the stand-ins for device code, *_stub.cpp, only where there is no
# device code, and the host files of src/cuda only where there is.
function(sluice_choose_half out)
  set(files ${ARGN})
  if(SLUICE_WITH_CUDA)
    list(FILTER files EXCLUDE REGEX "_stub\\.cpp$")
  else()
    set(stubs ${files})
    list(FILTER stubs INCLUDE REGEX "_stub\\.cpp$")
    list(FILTER files EXCLUDE REGEX "/src/cuda/|_stub\\.cpp$")
    list(APPEND files ${stubs})
  endif()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

set(sluice_generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(CONFIGURE OUTPUT ${sluice_generated}/sluice_ops.inc CONTENT "${registry}")
file(CONFIGURE OUTPUT ${sluice_generated}/sluice_build_info.inc CONTENT
"#define SLUICE_BUILD_CUDA \"${sluice_cuda_version}\"
#define SLUICE_BUILD_SM \"${sluice_sm}\"
#define SLUICE_BUILD_PTX \"${sluice_ptx}\"
")
