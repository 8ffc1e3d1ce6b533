"""A Slack workspace: Socket Mode, Web API and a page."""
