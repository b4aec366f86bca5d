"""The instance-based evaluation tree (JQPG section 2.3, after ZStream): leaves in any order, any shape."""
