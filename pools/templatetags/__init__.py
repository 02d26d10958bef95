"""Tags of the admin's templates."""
