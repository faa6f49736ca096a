# libmorikv: the KV library on UCP's public API.
