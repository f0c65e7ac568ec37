# A worker: the package with what a store needs, run by a user without rights.
FROM python:3.13-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --wheel-dir /wheels "/source[workers,outline]"

FROM python:3.13-slim
RUN useradd --uid 10001 --user-group --create-home --home-dir /home/worker --shell /usr/sbin/nologin worker
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels "skillrun-workflows[workers,outline]"
ENV XDG_CACHE_HOME=/home/worker/.cache PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /home/worker
ENTRYPOINT ["skillrun"]
CMD ["worker"]
