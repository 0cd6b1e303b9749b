CREATE TABLE booked (row bigserial, booked text NOT NULL, batch bigint NOT NULL);

