"""PostgreSQL: connections, transactions, migrations, and rows read without Django's price."""
