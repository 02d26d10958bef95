"""Words of a cluster that would steer a terminal, and forge a line of somebody else."""

HOSTILE = "gone\r\n[other] COMPLETED\x1b]0;owned\x07\x1b[1A\u009b2J\u202eback\u2028[other] ok"
IN_ONE_LINE = "gone [other] COMPLETED\\x1b]0;owned\\x07\\x1b[1A\\x9b2J\\u202eback [other] ok"
