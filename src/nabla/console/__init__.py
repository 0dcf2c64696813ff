"""The console: a lake in a browser, served or as static pages. It starts Spark only for what somebody asks for."""
