"""Read orders from standard input, one a line, and let a worker record each. Knows nothing of
lostack.
"""

import sys
import time

from kombu.exceptions import OperationalError
from tasks import record

for line in sys.stdin:
    while True:
        try:
            record.delay(line.strip())
            break
        except OperationalError:
            time.sleep(0.1)
