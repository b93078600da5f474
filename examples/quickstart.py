"""A first program: store a task, work until there is none left, read the result."""

import wherry

app = wherry.App("embedded:")  # a PostgreSQL that Wherry starts itself


@app.task(store_result=True)
async def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"


if __name__ == "__main__":
    task = greet.enqueue(name="world")
    app.work(until_empty=True)
    print(task.result(timeout=1))
