"""Read orders from standard input, one a line, and let a worker record each. An order whose sending
fails is not sent again: it may be there already. Knows nothing of lostack.
"""

import sys

from kombu.exceptions import OperationalError
from tasks import record

for line in sys.stdin:
    try:
        record.delay(line.strip())
    except OperationalError as error:
        print(f"not sent, or not known: {line.strip()}: {error}", file=sys.stderr)
