"""A port that was chosen is still free when a server binds it, however busy the machine is."""

import socket

import pytest

from localcluster.ports import LOOPBACK, free_ports


def test_a_port_is_kept_for_who_binds_it_by_its_number():
    ports = free_ports(3)
    assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as chance, pytest.raises(OSError, match="in use"):
            chance.bind((LOOPBACK, port))  # as the kernel tries it for a socket that leaves it the choice
        socket.create_server((LOOPBACK, port)).close()
