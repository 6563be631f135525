"""What surrounds the planner at run time: context, skills, memory, diagnosis."""
