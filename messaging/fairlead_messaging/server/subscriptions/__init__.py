"""Push subscriptions: their records, and the script that delivers one."""
