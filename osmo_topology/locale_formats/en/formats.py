"""One way to write a time in the admin: that of the pages, with its zone."""

DATETIME_FORMAT = r"Y-m-d H:i \U\T\C"
DATE_FORMAT = "Y-m-d"
