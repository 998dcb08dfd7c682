# SPDX-License-Identifier: Apache-2.0
"""A daemon for the tests of this folder: $PEALD, started by spawn: URIs in folders of their own."""

import pytest

import pealkv


@pytest.fixture(scope='session')
def uri(tmp_path_factory):
    """Of a daemon that goes a second after its last client."""
    return f'spawn:{tmp_path_factory.mktemp("peald")}?dram=256M&linger=1'


@pytest.fixture(scope='session')
def _keeper(uri):
    with pealkv.open(uri) as store:
        yield store


@pytest.fixture
def store(uri, _keeper):
    """A client of the session's daemon, which begins with nothing in it."""
    with pealkv.open(uri, timeout=10) as client:
        client.delete_many(list(client.list()))
        yield client
