# syntax=docker/dockerfile:1
#
#   docker build --target cpu  -t syntaxd .
#   docker build --target cuda -t syntaxd:cuda .      (docker run --gpus all ...)
#
# Both run as a user without rights, have the default model inside, and write to /var/cache/syntaxd only.

FROM python:3.11-slim-bookworm AS runtime
RUN useradd --system --uid 10001 --user-group --no-create-home syntaxd \
    && install -d -o syntaxd -g syntaxd /var/cache/syntaxd
ENV PATH=/opt/syntaxd/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    # The default model, put there below; models of the hub; kernels, which are compiled once.
    SYNTAXD_CACHE=/opt/models \
    HF_HOME=/var/cache/syntaxd/hub \
    NUMBA_CACHE_DIR=/var/cache/syntaxd/kernels \
    # A container is reached from outside or not at all; see docs/operations.md about TLS.
    SYNTAXD_HOST=0.0.0.0
VOLUME /var/cache/syntaxd
EXPOSE 50051
USER 10001:10001
WORKDIR /var/cache/syntaxd
# The model is loaded and kernels are compiled before the first answer.
HEALTHCHECK --interval=30s --timeout=10s --start-period=180s CMD ["syntaxd", "health"]
ENTRYPOINT ["syntaxd"]
CMD ["serve"]

FROM python:3.11-slim-bookworm AS source
WORKDIR /src
RUN python -m venv /opt/syntaxd
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY grammar grammar
COPY service service

FROM source AS build-cpu
# From torch's own index: the one on PyPI brings CUDA along.
RUN /opt/syntaxd/bin/pip install --no-cache-dir -c constraints.txt \
        --index-url https://download.pytorch.org/whl/cpu torch \
    && /opt/syntaxd/bin/pip install --no-cache-dir -c constraints.txt .

FROM source AS build-cuda
RUN /opt/syntaxd/bin/pip install --no-cache-dir -c constraints.txt .

FROM build-cpu AS model
RUN SYNTAXD_CACHE=/opt/models /opt/syntaxd/bin/syntaxd models fetch

FROM runtime AS cuda
COPY --from=build-cuda /opt/syntaxd /opt/syntaxd
COPY --from=model /opt/models /opt/models

FROM runtime AS cpu
COPY --from=build-cpu /opt/syntaxd /opt/syntaxd
COPY --from=model /opt/models /opt/models
