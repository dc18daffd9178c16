"""XPUs and platforms that run kernels, on OpenVINO devices or in virtual time, and the KV arena."""
