# The ROS wheels of PyPI export include directories of the container that built
# them (/opt/python/...), and CMake refuses an imported target that names a missing
# one. On an ordinary ROS installation nothing is changed.
function(drop_missing_include_dirs)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(NOT directories)
      continue()
    endif()
    set(kept)
    foreach(directory IN LISTS directories)
      if(NOT IS_ABSOLUTE "${directory}" OR EXISTS "${directory}")
        list(APPEND kept "${directory}")
      endif()
    endforeach()
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${kept}")
  endforeach()
endfunction()
