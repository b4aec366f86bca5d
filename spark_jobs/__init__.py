"""The Spark jobs of the pipeline, a file each: PySpark programs that `cep run`, Airflow and spark-submit run."""
