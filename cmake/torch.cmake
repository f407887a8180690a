# Everything that needs libtorch: kernels, runtime, weft-worker.
find_package(Torch REQUIRED)
find_package(OpenMP REQUIRED)

# Torch's own flags and headers are not ours to warn about.
add_library(weft_torch INTERFACE)
target_include_directories(weft_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(weft_torch INTERFACE ${TORCH_LIBRARIES} OpenMP::OpenMP_CXX)

file(GLOB kernel_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/weft/ops/*.aten.cpp ${PROJECT_SOURCE_DIR}/weft/kernels/*.cpp)
list(FILTER kernel_sources EXCLUDE REGEX "_test\\.cpp$")
add_library(weft_kernels STATIC ${kernel_sources})
add_library(weft::kernels ALIAS weft_kernels)
target_link_libraries(weft_kernels PUBLIC weft_flags weft::ops weft_torch)
target_precompile_headers(weft_kernels PRIVATE ${PROJECT_SOURCE_DIR}/weft/kernels/torch_headers.h)

file(GLOB runtime_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/weft/runtime/*.cpp)
set(runtime_tests ${runtime_sources})
list(FILTER runtime_sources EXCLUDE REGEX "_test\\.cpp$")
list(FILTER runtime_tests INCLUDE REGEX "_test\\.cpp$")
if(runtime_sources)
  add_library(weft_runtime STATIC ${runtime_sources})
  add_library(weft::runtime ALIAS weft_runtime)
  target_link_libraries(weft_runtime PUBLIC weft_flags weft::program weft::kernels weft::store weft::launch ${CMAKE_DL_LIBS})
  target_precompile_headers(weft_runtime REUSE_FROM weft_kernels)
endif()
if(runtime_tests)
  # The stand-in for NCCL is found by name at run time, as the library is.
  add_executable(runtime_test ${runtime_tests} ${PROJECT_SOURCE_DIR}/tests/nccl/stand_in.cpp)
  set_target_properties(runtime_test PROPERTIES ENABLE_EXPORTS ON)
  target_link_libraries(runtime_test PRIVATE weft_runtime GTest::gmock GTest::gtest_main)
  target_precompile_headers(runtime_test REUSE_FROM weft_kernels)
  add_test(NAME numerics.runtime COMMAND runtime_test)
  set_tests_properties(numerics.runtime PROPERTIES LABELS numerics TIMEOUT 300)
endif()

file(GLOB worker_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/weft-worker/*.cpp)
if(worker_sources)
  add_executable(weft-worker ${worker_sources})
  target_link_libraries(weft-worker PRIVATE weft::runtime weft::frontend CLI11::CLI11)
  target_precompile_headers(weft-worker REUSE_FROM weft_kernels)
endif()
