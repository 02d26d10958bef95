# One image for web, worker, beat, observer and the start barrier of tasks; what differs is the command.
FROM python:3.11-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements-service.lock ./
RUN python -m venv /opt/osmo && /opt/osmo/bin/pip install --require-hashes --only-binary=:all: -r requirements-service.lock

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 osmo && useradd --uid 10001 --gid osmo --home-dir /nonexistent --no-create-home osmo \
 && install -d -o osmo -g osmo -m 0700 /var/lib/osmo-topology
COPY --from=build /opt/osmo /opt/osmo
WORKDIR /srv/osmo
COPY manage.py pyproject.toml ./
COPY barrier barrier
COPY cluster cluster
COPY doctor doctor
COPY migrations migrations
COPY osmo_topology osmo_topology
COPY pages pages
COPY pools pools
COPY scheduling scheduling
COPY web web
COPY whatif whatif
COPY workflows workflows
ENV PATH=/opt/osmo/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 DJANGO_SETTINGS_MODULE=osmo_topology.settings
USER 10001:10001
EXPOSE 8000
CMD ["gunicorn", "--config", "python:web.server.webserver", "osmo_topology.asgi", "--bind", "0.0.0.0:8000", "--workers", "2"]
