"""The life cycle of KV chunks (LLMS §3.3, §3.4): arena, memory, disk and back. A chunk is a KV block."""
