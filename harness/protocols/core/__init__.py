"""Artemis' own protocol, which its makers call Core, versions 129 to 136."""
