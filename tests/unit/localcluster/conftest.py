from tests import real_definitions

# there is nothing to compare with where nobody names the real definitions
collect_ignore = [] if real_definitions.FOLDER else ["test_real_definitions.py"]
