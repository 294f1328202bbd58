# Beholder where there is no Python: docker run --rm -v "$PWD:/work" beholder run suite.yaml
FROM python:3.13-slim AS build
COPY . /source
RUN python -m venv /opt/beholder \
    && /opt/beholder/bin/pip install --no-cache-dir --constraint /source/constraints.txt "/source[prices,web]"

FROM python:3.13-slim
COPY --from=build /opt/beholder /opt/beholder
# What is written into the mounted folder belongs to this user, unless `docker run --user "$(id -u):$(id -g)"` names another.
RUN useradd --create-home --uid 1000 beholder
USER 1000
ENV PATH="/opt/beholder/bin:$PATH" PYTHONUNBUFFERED=1
WORKDIR /work
ENTRYPOINT ["beholder"]
CMD ["--help"]
