from app.frame import runner

runner.run("reviews")
