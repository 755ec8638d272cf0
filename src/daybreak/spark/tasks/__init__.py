"""Tasks, which jobs compute, and the engines that compute them."""
