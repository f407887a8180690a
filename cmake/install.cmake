# cmake --install: the binaries, and the torch-free libraries with what find_package(weft) needs. libtorch stays
# behind weft-worker, so a user's program neither includes nor links it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(weft_flags PROPERTIES EXPORT_NAME flags)
install(TARGETS weft_flags EXPORT weftTargets)
install(TARGETS weft)
if(WEFT_TORCH)
  set_target_properties(weft-worker PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)  # libtorch may lie anywhere
  install(TARGETS weft-worker)
endif()
install(DIRECTORY weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN "*.aten.h" EXCLUDE PATTERN "test_*.h" EXCLUDE PATTERN "kernels" EXCLUDE PATTERN "runtime" EXCLUDE)

set(WEFT_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
set(WEFT_WORKER_FILE ${CMAKE_INSTALL_BINDIR}/weft-worker)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${WEFT_PACKAGE_DIR})
configure_package_config_file(cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake
  INSTALL_DESTINATION ${WEFT_PACKAGE_DIR} PATH_VARS WEFT_WORKER_FILE)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
  DESTINATION ${WEFT_PACKAGE_DIR})
