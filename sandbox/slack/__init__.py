"""A Slack workspace on one port: Web API, Socket Mode, people, and a page to read and click.

`Workspace(world, spec, manifest)` is the whole of it. It is a stand-in: limits and refusals follow Slack's
documentation, its SDK and public reports; it was never compared with a live workspace.
"""
