"""What outlives a process: SQLite tables and files, one kind of thing a module. `sqlite` opens, `writer` writes."""
