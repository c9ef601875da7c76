from app.frame import runner

runner.run("similarity")
