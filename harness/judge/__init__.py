"""What a history comes to: the account, its crosschecks, the verdict. It knows no engine."""
