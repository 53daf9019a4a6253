# The ROS wheels of PyPI export include directories of the container that built
# them (/opt/python/...), and CMake refuses an imported target that names a missing
# one. On an ordinary ROS installation nothing is changed.
function(drop_missing_include_directories)
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

# CMake refuses to export a target with an include directory inside the source tree,
# and NumPy's is there when the virtual environment is (.venv, as `make` lays it).
# Only the build needs it.
function(keep_include_directories_to_the_build target)
  if(NOT TARGET ${target})
    return()
  endif()
  get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
  set(kept)
  foreach(directory IN LISTS directories)
    if(IS_ABSOLUTE "${directory}")
      set(directory "$<BUILD_INTERFACE:${directory}>")
    endif()
    list(APPEND kept "${directory}")
  endforeach()
  set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${kept}")
endfunction()
