"""What was expected where pydantic refuses a value, in the words of this service."""

EXPECTATIONS = {
    "string_type": "a text is needed",
    "int_type": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "int_parsing_size": "it is too large",
    "int_from_float": "a whole number is needed",
    "float_type": "a number is needed",
    "finite_number": "a whole number is needed",
    "bool_type": "true or false is needed",
    "bool_parsing": "true or false is needed",
    "list_type": "a list is needed",
    "tuple_type": "a list is needed",
    "dict_type": "a mapping is needed",
    "model_type": "a mapping is needed",
}
"""By the type of pydantic's error."""
