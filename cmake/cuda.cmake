# Decides SLUICE_WITH_CUDA and, where it is on, enables the language. find_package(CUDAToolkit) is avoided:
# CMake 3.25's finder stops on CUDA 13.

set(SLUICE_WITH_CUDA OFF)
if(SLUICE_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(SLUICE_WITH_CUDA ON)
  endif()
elseif(SLUICE_CUDA)
  set(SLUICE_WITH_CUDA ON)
endif()

set(sluice_cuda_version none)
set(sluice_sm "")
set(sluice_ptx "")
if(NOT SLUICE_WITH_CUDA)
  return()
endif()

# Set before the language is enabled: CMake's own default follows the toolkit and differs between machines.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90-real CACHE STRING "CUDA architectures, as CMake writes them" FORCE)
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
  message(FATAL_ERROR "sluice needs nvcc 12.8 or newer; ${CMAKE_CUDA_COMPILER} is "
                      "${CMAKE_CUDA_COMPILER_VERSION}")
endif()

# What sluice_build_info() says: "13.0", "75,80,90", "80".
string(REGEX MATCH "^[0-9]+\\.[0-9]+" sluice_cuda_version ${CMAKE_CUDA_COMPILER_VERSION})
foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  string(REGEX MATCH "^[0-9a-z]+" number ${architecture})
  if(NOT architecture MATCHES "-virtual$")
    list(APPEND sluice_sm ${number})
  endif()
  if(NOT architecture MATCHES "-real$")
    list(APPEND sluice_ptx ${number})
  endif()
endforeach()
list(JOIN sluice_sm "," sluice_sm)
list(JOIN sluice_ptx "," sluice_ptx)
