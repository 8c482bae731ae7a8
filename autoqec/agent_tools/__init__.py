"""What coding agents see of AutoQEC: skills, subagents, a plugin manifest and an MCP server. All of it calls the CLI."""
