"""The Bolt app: identity, authorisation, outbox, Block Kit within Slack's limits."""
