"""What jobs compute, and the engines that compute it."""
