"""Artemis' own protocol, called Core, versions 129 to 136."""
