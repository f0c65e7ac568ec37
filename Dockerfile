# A worker: the package with what a store needs, and git for repositories that are named by a commit.
FROM python:3.13-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --wheel-dir /wheels "/source[workers]"

FROM python:3.13-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/worker --shell /usr/sbin/nologin worker
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels "skillrun[workers]"
ENV XDG_CACHE_HOME=/home/worker/.cache PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /home/worker
ENTRYPOINT ["skillrun"]
CMD ["worker"]
