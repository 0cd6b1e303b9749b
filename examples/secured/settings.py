"""How these programs come to their brokers: by their environment, as twelve factors have it. Knows
nothing of lostack.
"""

import os

CLIENT = {
    "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
    "security.protocol": os.environ["SECURITY_PROTOCOL"],
    "sasl.mechanism": os.environ["SASL_MECHANISM"],
    "sasl.username": os.environ["SASL_USERNAME"],
    "sasl.password": os.environ["SASL_PASSWORD"],
    "ssl.ca.location": os.environ["CA_FILE"],
}
