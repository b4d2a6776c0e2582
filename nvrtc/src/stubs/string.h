// memcpy and memset are NVRTC's own; the other functions are the host's.
