"""Runs a llama.cpp server: `llama.py WEIGHTS PORT`."""

import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
params.use_jinja = True
params.warmup = False
params.verbosity = 0
# llama.cpp's threads busy-wait for each other, so that on a busy machine one is the fastest.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
# A model this small repeats itself without an end, unless repetition has a price.
params.sampling.temp, params.sampling.penalty_repeat, params.sampling.seed = 0.3, 1.1, 7
server = xllamacpp.Server(params)
server.handle_completions({"prompt": "a", "n_predict": 1})  # returns once the server's loop has started
signal.pause()
