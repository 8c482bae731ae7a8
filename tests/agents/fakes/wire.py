"""What the fake programs really send to the address that they were given, and how they take the answers.

A spec of a plan's `requests` holds fields of the body, and beside them `pad` (bytes of text in the prompt), `path` and `method`.
"""

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit


def send(base, path, headers, body, method="POST"):
    """(status, text of an error, events of a stream or the object of a body). A broken answer has no last event."""
    url = urlsplit(base)
    connection = http.client.HTTPConnection(url.hostname, url.port)
    try:
        data = None if method == "GET" else json.dumps(body).encode()
        connection.request(method, f"{url.path}{path}", data, {"content-type": "application/json", **headers})
        response = connection.getresponse()
        if response.status != 200:
            return response.status, response.read().decode(), []
        if response.headers.get_content_type() == "application/json":
            return 200, "", [json.loads(response.read())]
        events = []
        try:
            for line in response:
                if line.startswith(b"data: {"):
                    events.append(json.loads(line[6:]))
        except (OSError, http.client.HTTPException):
            pass
        return 200, "", events
    except (OSError, http.client.HTTPException) as error:
        return 502, str(error), []
    finally:
        connection.close()


def each(specs, ask, at_once):
    """Asks one after the other, or all in the same moment."""
    if not at_once:
        return [ask(spec) for spec in specs]
    with ThreadPoolExecutor(len(specs)) as pool:
        return list(pool.map(ask, specs))
