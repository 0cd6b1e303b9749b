"""ActiveMQ Classic. Its cells are run as cases, and by the suite for systems."""
