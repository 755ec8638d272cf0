SELECT reading, station, temperature, humidity, wind, at
FROM readings
