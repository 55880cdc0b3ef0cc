# driftrl for a CPU, installed from its wheel:
#
#   docker build -t driftrl .
#   docker run --rm driftrl list tasks
#   docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" driftrl run pendulum
#
# tests/test_packaging.py runs these steps without a container engine: paths within a
# step are relative to WORKDIR.

FROM python:3.11-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY studies studies
RUN python -m pip wheel --no-deps --wheel-dir wheels .

FROM python:3.11-slim
WORKDIR /install
COPY constraints.txt ./
COPY --from=build /build/wheels wheels
RUN python -m pip install --no-cache-dir -c constraints.txt wheels/*.whl
RUN useradd --uid 1000 driftrl
WORKDIR /work
RUN chmod 1777 .
# Code that JAX compiled is kept there, whoever --user is.
ENV HOME=/tmp
USER driftrl
ENTRYPOINT ["driftrl"]
CMD ["--help"]
