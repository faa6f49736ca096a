# libmorikv: the KV library on UCP's public API.
include_HEADERS += src/morikv.h
