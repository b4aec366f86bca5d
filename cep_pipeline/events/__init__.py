"""Events: the schema of a stream, its raw files, and the functions that turn rows into published events.

A raw row goes through these modules, in this order:

1. `raw_files`: the files of a day, by path templates with dates; `iceberg_tables`: by the metadata of a table;
   `readers`: one class a format (`csv_rows`, `parquet_rows`), which gives blocks of rows (`raw_rows`);
2. `parse`: each row is checked and typed (`row_checks`, `timestamps`, `casting`), and written with its day, file and
   line, or with the reason why it is rejected; `clock` decides about the hour that comes twice;
3. `validate`: the day as a whole meets the expectations of the schema, or is refused; it is a `StagedDay` then;
4. derived attributes (`derived`), seq and day are added, and the files of the day are written.

These functions know neither Spark nor the warehouse: `spark_jobs` reads, counts and orders with them. `event_files`
does the same in memory, for commands that look at files. `stream_document` is the model of a stream's YAML, of which
`source` is a part that is used as it is; `schema` has the rules of a stream, and is what all others know of it; and
`columns` names the columns of events and rejected rows.

A new setting of raw files is a field of `SourceSettings`. A new format is a `RowReader` in `READERS`, which gives
blocks of rows with their lines; one of text says in `TextReader.take` which rows some lines have. A new way to write a
value is a matter of `timestamps` or `casting`, which type columns.
"""
